.PHONY: test
test:
	cmake --preset release && cmake --build --preset release && ctest --preset release -j2
