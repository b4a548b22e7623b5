# Two precompiled headers, one for what we ship and one for tests; together they halve the time of a build.
#
# The object cache (ccache) and precompiled headers go together with these precautions (./dev sets CCACHE_*):
# - The header is compiled without the cache: its file names the directory it was made in, and a clone must not get another's.
# - Its users name it by a path relative to the build directory, which is the same in every clone.
# - Time stamps are left out of it, and the cache compares the checksum written here instead of the file itself. The checksum
#   therefore covers all that the header is made from: its text, the flags, the packages.

execute_process(
  COMMAND dpkg-query -W -f "\${Package} \${Version}\n" clang-19 libstdc++-12-dev libc6-dev linux-libc-dev libboost1.81-dev
    libfmt-dev libgtest-dev libgmock-dev
  OUTPUT_VARIABLE FIREBREAK_HEADER_PACKAGES ERROR_QUIET)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${FIREBREAK_ROOT}/cmake/precompiled.h ${FIREBREAK_ROOT}/cmake/precompiled_test.h)

# firebreak_precompiled(NAME HEADER FLAGS...): the target NAME, which compiles the header with these flags. The "object file" of
# the header is the precompiled header.
function(firebreak_precompiled name header)
  add_library(${name} OBJECT ${FIREBREAK_ROOT}/cmake/${header})
  set_source_files_properties(${FIREBREAK_ROOT}/cmake/${header} PROPERTIES LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE firebreak_options Boost::json Boost::boost fmt::fmt GTest::gmock)
  target_compile_options(${name} PRIVATE ${ARGN} -fpch-instantiate-templates "SHELL:-x c++-header")
  set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "")
  set(file CMakeFiles/${name}.dir/cmake/${header}.o)
  set(${name}_file ${file} PARENT_SCOPE)

  file(SHA256 ${FIREBREAK_ROOT}/cmake/precompiled.h text)
  file(SHA256 ${FIREBREAK_ROOT}/cmake/${header} own_text)
  get_directory_property(options COMPILE_OPTIONS)
  string(SHA256 checksum "${text} ${own_text} ${options} ${ARGN} ${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS_RELEASE}
    ${CMAKE_CXX_FLAGS_DEBUG} ${FIREBREAK_HEADER_PACKAGES}")
  file(WRITE ${CMAKE_BINARY_DIR}/${file}.sum ${checksum})
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
