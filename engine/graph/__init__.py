"""The computing graph that people program with: variables, operators as functions, parameters, compiled functions."""
