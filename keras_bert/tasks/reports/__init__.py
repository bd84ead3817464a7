"""Reports: what a task gets wrong on labelled rows, as a page and as JSON."""
