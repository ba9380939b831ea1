"""The studio: a local web page to label, train, review, audit and export."""
