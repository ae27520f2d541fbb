"""What `import nandlab` gives: each public name stands in one of these modules."""
