# A layer is a folder of src/ built as an OBJECT library. Objects do not travel transitively: whoever
# links names every layer it uses, so a call to a layer above fails at link time.
function(tidings_layer name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.c)
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

set(TIDINGS_LAYERS base json wire uri store worker match access catalog dialect request handler delivery protocol core
    provider http_client oauth client auth console
    transport server)
