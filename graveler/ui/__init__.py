"""The page: the files that `make ui` builds from `ui/`, and the paths at which they are served."""
