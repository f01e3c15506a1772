"""What a runtime cannot run, how it is mended, and the regions that a model is cut into."""
