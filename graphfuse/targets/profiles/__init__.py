"""What is known of machines that there are: sizes from their makers' tables, and constants that a command fitted."""
