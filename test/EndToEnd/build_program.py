#!/usr/bin/env python3
"""Links the program that `plumbc compile` has written: build_program.py CXX INCLUDE LIB FOLDER [PROVIDER [LIBRARY...]]"""
import glob, os, subprocess, sys

compiler, include, lib, folder, *rest = sys.argv[1:]
provider, libraries = (rest or ["threads"])[0], rest[1:]
command = [*compiler.split(), "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-I" + include, "-I" + include + "/plumb/Runtime/Host"]
command += [os.path.join(folder, "program.cpp"), *sorted(glob.glob(os.path.join(folder, "kernels", "*.o")))]
command += [os.path.join(lib, f"libplumb_runtime_{provider}.a"), *libraries, "-pthread", "-o"]
command += [os.path.join(folder, "program" if provider == "threads" else "program." + provider)]
sys.exit(subprocess.run(command).returncode)
