# A thin door for those who type make; CMakePresets.json is the build.
.PHONY: all dev asan tsan fuzz bench test quick run install uninstall format clean

all:
	cmake --workflow --preset release

dev asan tsan fuzz:
	cmake --workflow --preset $@

test:
	./test

quick:
	./test --quick

run:
	./run

# build/release/bench/NAME: see bench/README.md.
bench: all
	cmake --build build/release --target benchmarks

# Into PREFIX (/usr/local), below DESTDIR where that is set.
install: all
	cmake --install build/release $(if $(PREFIX),--prefix "$(abspath $(PREFIX))")

# What the last `make install` put there (its list is in the build folder), and folders of ours that
# are empty then.
uninstall:
	tools/uninstall build/release/install_manifest.txt

format:
	find src include tests examples bench -name node_modules -prune -o -name '*.[ch]' -print0 | \
	    xargs -0 clang-format -i

clean:
	rm -rf build
