# One interface target carries the warnings, so that only our own code is judged.
add_library(tidings_warnings INTERFACE)
target_compile_options(tidings_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wformat=2 -Wundef -Wvla
  -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wcast-qual -Wswitch-enum
  -Wnull-dereference -Wimplicit-fallthrough $<$<BOOL:${TIDINGS_WERROR}>:-Werror>)
# What a sanitizer weaves into the code misleads these two (gcc says so in its manual).
if(TIDINGS_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tidings_warnings INTERFACE -Wno-null-dereference -Wno-format-truncation)
endif()

# For the layers that handle lengths from strangers. Linked after the above, whose switch it undoes
# (in C, -Wconversion implies it).
add_library(tidings_strict_warnings INTERFACE)
target_compile_options(tidings_strict_warnings INTERFACE -Wsign-conversion)
