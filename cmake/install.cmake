# What `cmake --install` puts where: public headers, both libraries, the program, manual pages, and
# the two descriptions by which others find us (pkg-config and find_package). Both descriptions are
# relative to where they lie, so `--prefix` and a moved tree keep working.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tidings DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

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
endif()

if(TARGET tidings)
  install(TARGETS tidings RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# man/NAME.SECTION.scd
find_program(SCDOC scdoc)
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/man/*.scd)
if(SCDOC AND pages)
  set(rendered)
  foreach(page ${pages})
    get_filename_component(name ${page} NAME_WLE)
    string(REGEX REPLACE ".*\\." "" section ${name})
    set(output ${PROJECT_BINARY_DIR}/man/${name})
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
      COMMAND sh -c "\"$1\" < \"$2\" > \"$3\"" sh ${SCDOC} ${page} ${output}
      DEPENDS ${page} COMMENT "Rendering ${name}" VERBATIM)
    install(FILES ${output} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    list(APPEND rendered ${output})
  endforeach()
  add_custom_target(man ALL DEPENDS ${rendered})
endif()
