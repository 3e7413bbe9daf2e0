import os

import lit.formats

config.name = "Plumb"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Unit", "Fixtures", "Fuzz", "Bench", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.plumb_binary_dir + "/test"

llvm_bin = config.llvm_tools_dir
for tool in ("FileCheck", "not", "count", "split-file"):
    config.substitutions.append((r"\b(?<![-/])" + tool + r"\b", os.path.join(llvm_bin, tool)))
run_plan = os.path.join(config.test_source_root, "EndToEnd", "run_plan.py")
plumbc = os.path.join(config.plumb_binary_dir, "bin", "plumbc")
build_program = os.path.join(config.test_source_root, "EndToEnd", "build_program.py")
include_dir = os.path.join(os.path.dirname(config.test_source_root), "include")
lib_dir = os.path.join(config.plumb_binary_dir, "lib")
clangxx = os.path.join(llvm_bin, "clang++") + (" -fsanitize=address,undefined" if config.sanitize else "")
config.substitutions += [
    ("%build-program", f"python3 {build_program} '{clangxx}' {include_dir} {lib_dir}"),
    ("%python", "python3"),
    ("%run-plan", f"python3 {run_plan} {plumbc}"),
    ("%fixtures", os.path.join(config.test_source_root, "Fixtures")),
    ("%plumb-root", os.path.dirname(config.test_source_root)),
    ("%plumb-include", os.path.join(os.path.dirname(config.test_source_root), "include")),
    ("%plumb-lib", os.path.join(config.plumb_binary_dir, "lib")),
    ("%cxx", "g++"),
    ("%clangxx", clangxx),
]
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.plumb_binary_dir, "bin"), llvm_bin, os.environ["PATH"]]
)
for variable in ("HOME", "XDG_CACHE_HOME", "CXX", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

if config.cuda_include_dir:
    config.available_features.add("cuda")
    config.substitutions.append(("%cuda-include", config.cuda_include_dir))
    config.substitutions.append(("%cuda-root", os.path.dirname(config.cuda_include_dir)))
if config.mpi_libraries:
    config.available_features.add("mpi")
    config.substitutions.append(("%mpirun", "mpirun --oversubscribe --bind-to none --allow-run-as-root --mca odls_base_sigkill_timeout 5"))
    config.substitutions.append(("%mpi-libraries", " ".join(config.mpi_libraries)))
if config.sanitize:
    config.available_features.add("sanitize")
    # LLVM's allocators poison their slabs in our code and unpoison them in libMLIR, which is not instrumented.
    config.environment.setdefault("ASAN_OPTIONS", "allow_user_poisoning=0")
