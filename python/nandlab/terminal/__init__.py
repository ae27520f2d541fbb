"""What people see in a terminal: tables on standard output, progress on standard error."""
