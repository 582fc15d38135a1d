# altdiff_add_library(name [options...]): the whole core as a library; the Python package builds it once for every
# instruction set.
configure_file(src/linalg/blas.hpp.in "${PROJECT_BINARY_DIR}/generated/linalg/blas.hpp" @ONLY)

file(GLOB_RECURSE ALTDIFF_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cpp")

set(ALTDIFF_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(ALTDIFF_WARNINGS_AS_ERRORS)
  list(APPEND ALTDIFF_WARNINGS -Werror)
endif()

function(altdiff_add_library name)
  add_library(${name} STATIC ${ALTDIFF_SOURCES})
  # Nothing in a program replaces a function of ours, so that calls need not go through its tables; and the two
  # modules of the Python package, of which both are loaded, share no object.
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(
    ${name}
    PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>"
    PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_BINARY_DIR}/generated")
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_definitions(${name} PRIVATE ALTDIFF_VERSION="${PROJECT_VERSION}")
  # Nobody reads errno after a square root; and vectors may be passed to functions, which are all our own.
  target_compile_options(${name} PRIVATE ${ALTDIFF_WARNINGS} -fno-math-errno -Wno-psabi ${ARGN})
  target_link_libraries(${name} PUBLIC Eigen3::Eigen altdiff::blas Threads::Threads)
  if(ALTDIFF_SANITIZE)
    target_compile_options(${name} PUBLIC -fsanitize=${ALTDIFF_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${name} PUBLIC -fsanitize=${ALTDIFF_SANITIZE})
  endif()
endfunction()
