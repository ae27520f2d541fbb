"""Operation counts of the file systems on raw NAND against those of real code."""
