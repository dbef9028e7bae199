"""The library and its peers on the same work in the same run, and a hunt for answers below the truth.

`python -m benchmarks --help`, from the root of the repository; it is no part of the package that is installed.
"""
