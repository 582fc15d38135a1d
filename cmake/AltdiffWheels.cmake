# Eigen and OpenBLAS as Python wheels keep their files one folder below site-packages, where find_package does not
# look by itself.
foreach(folder IN LISTS CMAKE_PREFIX_PATH)
  foreach(wheel IN ITEMS cmeel.prefix scipy_openblas32)
    if(IS_DIRECTORY "${folder}/${wheel}")
      list(APPEND CMAKE_PREFIX_PATH "${folder}/${wheel}")
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES CMAKE_PREFIX_PATH)

# A range finds Eigen 3.4 and 5; Debian's 3.4.0 does not understand ranges.
find_package(Eigen3 3.4...<6 QUIET CONFIG)
if(NOT TARGET Eigen3::Eigen)
  find_package(Eigen3 3.4 REQUIRED CONFIG)
endif()
