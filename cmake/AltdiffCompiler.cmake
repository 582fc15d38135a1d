# Which compilers build altdiff, said before CMake's own errors, which do not know.
#   altdiff_require_compiler()          before project(): there is one
#   altdiff_require_compiler_version()  after it: it is new enough
include_guard(GLOBAL)

string(CONCAT ALTDIFF_COMPILERS "altdiff is compiled from source and needs a C++20 compiler: GCC 12 or newer, or "
              "clang 16 or newer. Debian and Ubuntu: apt-get install g++; conda: conda install -c conda-forge gxx. "
              "The environment variable CXX chooses another one.")

# CMake looks for these as well. A toolchain file, or a generator that has a compiler of its own, is left alone.
function(altdiff_require_compiler)
  if(NOT CMAKE_HOST_UNIX OR CMAKE_TOOLCHAIN_FILE OR CMAKE_GENERATOR MATCHES "Xcode")
    return()
  endif()
  set(wanted "${CMAKE_CXX_COMPILER}")
  if(NOT wanted)
    set(wanted "$ENV{CXX}")
  endif()
  if(wanted)
    list(GET wanted 0 wanted)
    get_filename_component(found "${wanted}" PROGRAM PROGRAM_ARGS arguments)
    set(what "There is no ${wanted}, which CXX or CMAKE_CXX_COMPILER names.")
  else()
    find_program(found NAMES c++ CC g++ clang++ icpx NO_CACHE)
    set(what "None was found.")
  endif()
  if(NOT found)
    message(FATAL_ERROR "${ALTDIFF_COMPILERS} ${what}")
  endif()
endfunction()

function(altdiff_require_compiler_version)
  set(oldest_GNU 12)
  set(oldest_Clang 16)
  set(oldest_AppleClang 15)
  set(oldest "${oldest_${CMAKE_CXX_COMPILER_ID}}")
  if(oldest AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
    set(found "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
    message(FATAL_ERROR "${ALTDIFF_COMPILERS} ${CMAKE_CXX_COMPILER} is ${found}.")
  endif()
endfunction()
