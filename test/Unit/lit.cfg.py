import os

import lit.formats

config.name = "Plumb-Unit"
config.test_format = lit.formats.GoogleTest("bin", "Tests")
config.suffixes = []
config.test_source_root = config.test_exec_root = config.plumb_binary_dir + "/test/Unit"
for variable in ("HOME", "XDG_CACHE_HOME", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
# As in test/lit.cfg.py; without a sanitizer nobody reads it.
config.environment.setdefault("ASAN_OPTIONS", "allow_user_poisoning=0")
