# A thin door for those who type make; CMakePresets.json is the build.
.PHONY: all dev asan tsan fuzz test quick run install format clean

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

install: all
	cmake --install build/release

format:
	find src include tests examples bench -name node_modules -prune -o -name '*.[ch]' -print0 | \
	    xargs -0 clang-format -i

clean:
	rm -rf build
