"""The command line. Each file holds a group of commands, which parse and print; the library computes."""
