"""People, their interests and the map of the catalog on a page: a file that can be mailed, or a notebook's widget."""
