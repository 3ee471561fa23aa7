# What `cmake --install` puts where: public headers, both libraries, the program, manual pages,
# completions of shells, and the two descriptions by which others find us (pkg-config and
# find_package). Both descriptions are relative to where they lie, so `--prefix` and a moved tree
# keep working.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tidings DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

if(TARGET tidings_static)
  install(TARGETS tidings_static tidings_shared EXPORT tidings-targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tidings)
  install(EXPORT tidings-targets NAMESPACE tidings:: DESTINATION ${package_dir})
  configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tidings-config.cmake.in
    ${PROJECT_BINARY_DIR}/tidings-config.cmake INSTALL_DESTINATION ${package_dir}
    NO_SET_AND_CHECK_MACRO)
  # Until 1.0 a minor version may break the interface.
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/tidings-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/tidings-config.cmake
                ${PROJECT_BINARY_DIR}/tidings-config-version.cmake
          DESTINATION ${package_dir})

  set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
    set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
    set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  else()
    file(RELATIVE_PATH up /p/${pc_dir} /p)
    string(REGEX REPLACE "/$" "" up "${up}")
    set(pc_prefix "\${pcfiledir}/${up}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  endif()
  set(pc_private_libs "-pthread")
  foreach(library ${CMAKE_DL_LIBS})
    string(APPEND pc_private_libs " -l${library}")
  endforeach()
  configure_file(${CMAKE_CURRENT_LIST_DIR}/tidings.pc.in ${PROJECT_BINARY_DIR}/tidings.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/tidings.pc DESTINATION ${pc_dir})
  # For programs built against this checkout, with PKG_CONFIG_PATH naming the build folder:
  # pkg-config takes it instead of one that is installed.
  set(pc_prefix ${PROJECT_SOURCE_DIR})
  set(pc_includedir ${PROJECT_SOURCE_DIR}/include)
  set(pc_libdir "${PROJECT_BINARY_DIR} -Wl,-rpath,${PROJECT_BINARY_DIR}")
  configure_file(${CMAKE_CURRENT_LIST_DIR}/tidings.pc.in
                 ${PROJECT_BINARY_DIR}/tidings-uninstalled.pc @ONLY)

  # Where the loader does not look by itself, say what to do.
  install(CODE "
    if(NOT DEFINED ENV{DESTDIR})
      message(STATUS \"Programs find \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libtidings.so after 'ldconfig' (as root, \"
        \"where that folder is in /etc/ld.so.conf.d), or linked with -Wl,-rpath,\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}; \"
        \"pkg-config finds it with PKG_CONFIG_PATH=\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig\")
    endif()")
endif()

if(TARGET tidings)
  install(TARGETS tidings RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# man/NAME.SECTION, rendered by tools/render-man, and the manual of the library, which is made of the
# headers.
file(GLOB pages ${PROJECT_SOURCE_DIR}/man/*.[0-9])
foreach(page ${pages})
  string(REGEX REPLACE ".*\\." "" section ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/tidings/*.h)
set(library_pages ${PROJECT_BINARY_DIR}/man/man3)
add_custom_command(OUTPUT ${library_pages}/libtidings.3
  COMMAND sh ${PROJECT_SOURCE_DIR}/tools/man-library ${PROJECT_SOURCE_DIR}/include ${library_pages}
  DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/tools/man-library
  COMMENT "Making the manual of the library" VERBATIM)
install(DIRECTORY ${library_pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
add_custom_target(man ALL DEPENDS ${library_pages}/libtidings.3)

# Completions of shells, which the program prints itself.
if(TARGET tidings AND NOT CMAKE_CROSSCOMPILING)
  set(completions)
  foreach(row "bash|bash-completion/completions|tidings" "zsh|zsh/site-functions|_tidings"
          "fish|fish/vendor_completions.d|tidings.fish")
    string(REPLACE "|" ";" row ${row})
    list(GET row 0 shell)
    list(GET row 1 folder)
    list(GET row 2 name)
    set(output ${PROJECT_BINARY_DIR}/completions/${shell}/${name})
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/completions/${shell}
      COMMAND sh -c "\"$1\" completions \"$2\" > \"$3\"" sh $<TARGET_FILE:tidings> ${shell} ${output}
      DEPENDS tidings COMMENT "Making the completions of ${shell}" VERBATIM)
    install(FILES ${output} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
    list(APPEND completions ${output})
  endforeach()
  add_custom_target(completions ALL DEPENDS ${completions})
endif()
