# Compiler, language level, warnings, sanitizers, hardening: the same for every target.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "g++ below 13 destroys some temporaries twice in statements with co_await. "
    "Use clang 19: cmake --preset release (see docs/adr/0001-clang-19.md)")
endif()

set(FIREBREAK_ROOT ${PROJECT_SOURCE_DIR})
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Libraries and programs alike, so that both can reuse one precompiled header. Programs are linked as PIE by default.
add_compile_options(-fPIC)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)
# No debug information: it takes an eighth of the time of a build. Names of functions stay; the preset dev has lines.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -D_FORTIFY_SOURCE=2 -fstack-protector-strong")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -D_GLIBCXX_ASSERTIONS")

set(FIREBREAK_SANITIZER "" CACHE STRING "address (with undefined) or thread")
# Tests are compiled more often than they are run, and wait for guests when they run.
set(FIREBREAK_TEST_FLAGS $<$<CONFIG:Release>:-O0> $<$<CONFIG:Release>:-U_FORTIFY_SOURCE>)
add_library(firebreak_options INTERFACE)
target_compile_options(firebreak_options INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wthread-safety
  -Wno-missing-field-initializers -Wno-gnu-statement-expression-from-macro-expansion -Wno-c99-extensions)
target_include_directories(firebreak_options INTERFACE ${FIREBREAK_ROOT}/src)
target_compile_definitions(firebreak_options INTERFACE
  BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE
  # Asio takes the frames of coroutines from aligned_alloc: in glibc a slow way to what new gives as well.
  BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC BOOST_ASIO_DISABLE_BOOST_ALIGN
  FIREBREAK_VERSION="${PROJECT_VERSION}")
target_compile_options(firebreak_options INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
target_link_options(firebreak_options INTERFACE -fuse-ld=lld-19 -Wl,-z,relro,-z,now)
if(FIREBREAK_SANITIZER STREQUAL "address")
  # Coverage is for the fuzz targets; elsewhere the sanitizer's run time ignores it.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=address,undefined)
elseif(FIREBREAK_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

find_package(GTest REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(fmt REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 3.38 REQUIRED)
find_library(NGHTTP2_LIBRARY nghttp2 REQUIRED)
find_library(CARES_LIBRARY cares REQUIRED)
