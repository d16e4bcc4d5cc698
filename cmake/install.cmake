# The program: binary, manual page, systemd unit, an example configuration, documents. Included by the top
# CMakeLists.txt. libpurgatory installs itself (purgatory.cmake, component purgatory).
#   cmake --install build/release --prefix /usr              all of it
#   cmake --install build/release --component barnabas      the program alone
include(GNUInstallDirs)

if(TARGET barnabas)
  install(TARGETS barnabas RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT barnabas)
endif()
install(FILES ${CMAKE_SOURCE_DIR}/packaging/barnabas.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT barnabas)
# systemd looks under lib/ on every architecture. The path of the binary is set when the prefix is known: at install.
install(CODE "
  set(program \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/barnabas\")
  configure_file(\"${CMAKE_SOURCE_DIR}/packaging/barnabas.service.in\"
                 \"${CMAKE_BINARY_DIR}/packaging/barnabas.service\" @ONLY)"
  COMPONENT barnabas)
install(FILES ${CMAKE_BINARY_DIR}/packaging/barnabas.service
  DESTINATION lib/systemd/system COMPONENT barnabas)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/server.properties
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT barnabas)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT barnabas FILES_MATCHING PATTERN "*.md" PATTERN benchmarks EXCLUDE)
