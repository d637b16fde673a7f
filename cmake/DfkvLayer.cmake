# dfkv_layer(<layer> [TARGET name] SOURCES ... [TESTS ...] [DEPS layers or dfkv targets ...] [EXTERNAL link items ...])
#
# Declares one static library of a layer (target dfkv_<layer>, or TARGET for a second library of that layer) and, from
# TESTS, its test binary <target>_test. DEPS are target names; each must belong to a layer that src/layers.cmake grants.
include_guard()
include(${CMAKE_SOURCE_DIR}/src/layers.cmake)

function(dfkv_check_layer layer target)
  foreach(dep IN LISTS ARGN)
    get_target_property(dep_layer ${dep} DFKV_LAYER)
    if(NOT dep_layer)
      message(FATAL_ERROR "${target}: ${dep} belongs to no layer; declare it with dfkv_layer() before it is used")
    endif()
    if(NOT dep_layer STREQUAL layer AND NOT dep_layer IN_LIST DFKV_LAYER_${layer})
      message(FATAL_ERROR
        "layer '${layer}' may not use layer '${dep_layer}' (${target} links ${dep}). "
        "Its row in src/layers.cmake grants: ${DFKV_LAYER_${layer}}. Change the design, not the row, "
        "or record the decision in docs/decisions/.")
    endif()
  endforeach()
endfunction()

function(dfkv_layer layer)
  cmake_parse_arguments(A "" "TARGET" "SOURCES;TESTS;TEST_DEPS;DEPS;EXTERNAL" ${ARGN})
  if(NOT layer IN_LIST DFKV_LAYERS)
    message(FATAL_ERROR "unknown layer '${layer}'; src/layers.cmake lists: ${DFKV_LAYERS}")
  endif()
  set(target dfkv_${layer})
  if(A_TARGET)
    set(target ${A_TARGET})
  endif()
  add_library(${target} STATIC ${A_SOURCES})
  set_target_properties(${target} PROPERTIES DFKV_LAYER ${layer} POSITION_INDEPENDENT_CODE ON
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  dfkv_check_layer(${layer} ${target} ${A_DEPS})
  target_link_libraries(${target} PUBLIC dfkv_flags ${A_DEPS} PRIVATE ${A_EXTERNAL})

  # The layer linked whole into an empty main: an upward symbol does not resolve and fails the build.
  add_executable(${target}_whole ${CMAKE_SOURCE_DIR}/cmake/empty_main.cc)
  set_target_properties(${target}_whole PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(${target}_whole PRIVATE dfkv_flags -Wl,--whole-archive ${target} -Wl,--no-whole-archive)

  if(A_TESTS)
    dfkv_test(${layer} ${target}_test SOURCES ${A_TESTS} DEPS ${target} ${A_TEST_DEPS})
  endif()
endfunction()

# After dfkv_flags on the command line, where clang's -Wconversion would bring the warning back.
add_library(dfkv_test_flags INTERFACE)
target_compile_options(dfkv_test_flags INTERFACE -Wno-sign-conversion)

# dfkv_test(<layer> <target> SOURCES ... DEPS ...): a GoogleTest binary; each of its tests becomes a ctest entry.
function(dfkv_test layer target)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;EXTERNAL" ${ARGN})
  if(NOT DFKV_TESTS)
    return()
  endif()
  if(NOT TARGET dfkv_probe_report)
    add_library(dfkv_probe_report OBJECT ${CMAKE_SOURCE_DIR}/cmake/probe_report.cc)
    target_link_libraries(dfkv_probe_report PRIVATE dfkv_flags GTest::gtest dfkv_test_flags)
  endif()
  add_executable(${target} ${A_SOURCES} $<TARGET_OBJECTS:dfkv_probe_report>)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(${target} PRIVATE dfkv_flags ${A_DEPS} ${A_EXTERNAL} dfkv_base GTest::gtest_main
                        dfkv_test_flags)
  gtest_discover_tests(${target} TEST_PREFIX "${layer}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
                       PROPERTIES TIMEOUT 300)
endfunction()
