# libpurgatory as a library of its own: shared and static, headers, pkg-config, CMake package; and
# its tests with planted bugs. Included by the top CMakeLists.txt after barnabas_room(purgatory).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(PURGATORY_VERSION 0.1.0)
file(GLOB purgatory_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/purgatory/*.c)
file(GLOB purgatory_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/purgatory/*.h)
list(FILTER purgatory_headers EXCLUDE REGEX "_int\\.h$")

# The same build for the broker's copy and for the installed ones: one translation unit, so that the
# compiler sees through the calls between small files, but for the two files that may call the
# operating system.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/purgatory/purg_pthread.c
  ${CMAKE_SOURCE_DIR}/src/purgatory/reaper.c PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
function(purgatory_build target)
  set_target_properties(${target} PROPERTIES
    C_VISIBILITY_PRESET hidden UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
endfunction()
purgatory_build(bb_purgatory)

foreach(kind SHARED STATIC)
  string(TOLOWER purgatory_${kind} target)
  add_library(${target} ${kind} ${purgatory_sources})
  purgatory_build(${target})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME purgatory
    VERSION ${PURGATORY_VERSION}
    SOVERSION 0)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:bb_flags> PUBLIC Threads::Threads)
endforeach()
set_target_properties(purgatory_shared PROPERTIES EXPORT_NAME purgatory)
set_target_properties(purgatory_static PROPERTIES EXPORT_NAME purgatory_static)

install(TARGETS purgatory_shared purgatory_static EXPORT purgatory-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT purgatory
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT purgatory)
install(FILES ${purgatory_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/purgatory
  COMPONENT purgatory)
install(EXPORT purgatory-targets NAMESPACE purgatory:: FILE purgatory-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/purgatory COMPONENT purgatory)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/purgatory-config.cmake.in
  ${CMAKE_BINARY_DIR}/purgatory/purgatory-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/purgatory)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/purgatory/purgatory-config-version.cmake
  VERSION ${PURGATORY_VERSION} COMPATIBILITY SameMinorVersion)
# The prefix is where the file lies, so that an installed tree can be moved.
file(RELATIVE_PATH PURGATORY_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" PURGATORY_PC_TO_PREFIX "${PURGATORY_PC_TO_PREFIX}")
configure_file(${CMAKE_SOURCE_DIR}/cmake/purgatory.pc.in
  ${CMAKE_BINARY_DIR}/purgatory/purgatory.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/purgatory/purgatory-config.cmake
  ${CMAKE_BINARY_DIR}/purgatory/purgatory-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/purgatory COMPONENT purgatory)
install(FILES ${CMAKE_BINARY_DIR}/purgatory/purgatory.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT purgatory)
install(FILES ${CMAKE_SOURCE_DIR}/docs/PURGATORY.md ${CMAKE_SOURCE_DIR}/docs/PURGATORY_PROOF.md
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/purgatory COMPONENT purgatory)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/purgatory/
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/purgatory/examples COMPONENT purgatory)

# Planted bugs: a library built with one must fail the test that is about it.
function(purgatory_mutant mutant test finding)
  set(target unit_purgatory_mutant_${mutant})
  add_executable(${target} ${purgatory_sources}
    ${CMAKE_SOURCE_DIR}/tests/unit/purgatory/${test}_test.c)
  target_compile_definitions(${target} PRIVATE PURG_MUTANT_${mutant})
  target_compile_options(${target} PRIVATE -Wno-missing-prototypes)
  target_link_libraries(${target} PRIVATE bb_flags cmocka Threads::Threads)
  add_test(NAME unit.purgatory.mutant_${mutant} COMMAND ${target})
  set_tests_properties(unit.purgatory.mutant_${mutant} PROPERTIES TIMEOUT 60 LABELS unit
    PASS_REGULAR_EXPRESSION "${finding}")
endfunction()
include(CTest)
if(BUILD_TESTING AND EXISTS ${CMAKE_SOURCE_DIR}/tests/unit/purgatory/purgatory_test.c)
  set(failed "(FAILED|ERROR) +. test")
  purgatory_mutant(RECHECK purgatory "${failed}_event_during_a_check_is_not_lost")
  purgatory_mutant(TWICE purgatory "${failed}_timeout_after_the_event_does_nothing")
  if(BARNABAS_TSAN)
    purgatory_mutant(RACE stress "WARNING: ThreadSanitizer: data race")
    set_tests_properties(unit.purgatory.mutant_RACE PROPERTIES ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1")
  endif()
endif()
