# Finds BLAS and LAPACK and defines the target altdiff::blas, with
#   ALTDIFF_BLAS_PREFIX       what the library puts before its symbols
#   ALTDIFF_BLAS_IS_OPENBLAS  1 if its threads can be set and its build described
#   ALTDIFF_BLAS_NAME
# First the OpenBLAS that Python's package scipy-openblas32 carries, then whatever the system has.
include_guard(GLOBAL)

if(TARGET altdiff::blas)
  return()
endif()

find_library(ALTDIFF_SCIPY_OPENBLAS NAMES scipy_openblas PATH_SUFFIXES lib)
mark_as_advanced(ALTDIFF_SCIPY_OPENBLAS)

add_library(altdiff::blas INTERFACE IMPORTED GLOBAL)
if(ALTDIFF_SCIPY_OPENBLAS)
  set(ALTDIFF_BLAS_PREFIX "scipy_")
  set(ALTDIFF_BLAS_IS_OPENBLAS 1)
  set(ALTDIFF_BLAS_NAME "OpenBLAS")
  set_target_properties(altdiff::blas PROPERTIES INTERFACE_LINK_LIBRARIES "${ALTDIFF_SCIPY_OPENBLAS}")
else()
  find_package(LAPACK REQUIRED)
  set(ALTDIFF_BLAS_PREFIX "")
  set(ALTDIFF_BLAS_NAME "${LAPACK_LIBRARIES}")
  set_target_properties(altdiff::blas PROPERTIES INTERFACE_LINK_LIBRARIES "LAPACK::LAPACK")
  include(CheckFunctionExists)
  set(CMAKE_REQUIRED_LIBRARIES LAPACK::LAPACK)
  check_function_exists(openblas_set_num_threads ALTDIFF_HAS_OPENBLAS_THREADS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(ALTDIFF_HAS_OPENBLAS_THREADS)
    set(ALTDIFF_BLAS_IS_OPENBLAS 1)
  else()
    set(ALTDIFF_BLAS_IS_OPENBLAS 0)
  endif()
endif()
