"""The studio: a page on one's own machine to label, train, review, audit and export."""
