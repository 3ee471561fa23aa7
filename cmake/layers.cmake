# A layer is a folder of src/ with its subfolders, built as an OBJECT library. Objects do not travel transitively: whoever
# links names every layer it uses, so a call to a layer above fails at link time.
function(tidings_layer name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.c
       ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*/*.c)
  list(FILTER sources EXCLUDE REGEX "/cli/main\\.c$")
  if(NOT sources)
    add_library(layer_${name} INTERFACE)
    return()
  endif()
  add_library(layer_${name} OBJECT ${sources})
  target_include_directories(layer_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                             ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(layer_${name} PRIVATE tidings_warnings ${ARG_LIBS})
endfunction()

# The objects of some layers, and the libraries those need.
function(tidings_link_layers target)
  foreach(name ${ARGN})
    get_target_property(kind layer_${name} TYPE)
    if(kind STREQUAL "OBJECT_LIBRARY")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:layer_${name}>)
    endif()
  endforeach()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include
                             ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

# What the library is made of, from bottom to top. The program (cli) is not part of it.
set(TIDINGS_LAYERS base formats security store engine sources cluster transport server client)
# The folders that each may use, itself the last.
set(below_base base)
set(below_formats base formats)
set(below_security base formats security)
set(below_store base formats store)
set(below_engine base formats security store engine)
set(below_sources base formats security store sources)
set(below_cluster base formats security store engine sources cluster)
set(below_transport base formats security store engine transport)
set(below_server ${TIDINGS_LAYERS})
set(below_client base formats security client)
set(below_cli ${TIDINGS_LAYERS} cli)
