"""The search of a design space: from a file of axes to a front, a table and a recommendation."""
