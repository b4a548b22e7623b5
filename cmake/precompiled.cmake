# Two precompiled headers, one for what we ship and one for tests; together they halve the time of a build.
#
# The object cache (ccache) and precompiled headers go together with these precautions:
# - A header is compiled without the cache: its file names the directory it was made in, and a clone must not get another's.
# - Its users name it by a path relative to the build directory, which is the same in every clone.
# - The cache does not compare that file (./dev sets CCACHE_IGNOREHEADERS), but every header that went into it.

# firebreak_precompiled(NAME HEADER FLAGS...): the target NAME, which compiles the header with these flags. The "object file" of
# the header is the precompiled header.
function(firebreak_precompiled name header)
  add_library(${name} OBJECT ${FIREBREAK_ROOT}/cmake/${header})
  set_source_files_properties(${FIREBREAK_ROOT}/cmake/${header} PROPERTIES LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE firebreak_options Boost::json Boost::boost fmt::fmt GTest::gmock)
  target_compile_options(${name} PRIVATE ${ARGN} -fpch-instantiate-templates "SHELL:-x c++-header")
  set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "")
  set(${name}_file CMakeFiles/${name}.dir/cmake/${header}.o PARENT_SCOPE)
endfunction()

# firebreak_use_precompiled(TARGET NAME): every file of TARGET begins with the header of NAME.
function(firebreak_use_precompiled target name)
  target_compile_options(${target} PRIVATE -Winvalid-pch "SHELL:-include-pch ${${name}_file}")
  get_target_property(sources ${target} SOURCES)
  set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS ${CMAKE_BINARY_DIR}/${${name}_file})
endfunction()

firebreak_precompiled(precompiled_code precompiled.h)
firebreak_precompiled(precompiled_tests precompiled_test.h ${FIREBREAK_TEST_FLAGS})

# firebreak_test_program(TARGET): how tests and what only they use are compiled.
function(firebreak_test_program target)
  target_compile_options(${target} PRIVATE ${FIREBREAK_TEST_FLAGS})
  firebreak_use_precompiled(${target} precompiled_tests)
endfunction()
