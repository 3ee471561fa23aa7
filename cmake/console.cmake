# Makes console_text.c of the files of the console's page (src/server/console). Run as a script:
#   cmake -DFROM=src/server/console -DTO=console_text.c -P cmake/console.cmake
# The scripts share one scope, in the order below; each file is a chapter of it.
set(scripts dom mcp live text schema_form overview peers resources changes try app)

file(READ ${FROM}/index.html html)
file(READ ${FROM}/style.css style)
set(script "\"use strict\";\n(() => {\n")
foreach(name ${scripts})
  # CMake takes brackets and semicolons in lists apart, so texts are only ever appended whole.
  file(READ ${FROM}/${name}.js text)
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")
foreach(part style script)
  string(FIND "${${part}}" "</${part}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "the ${part} of the console would end its own element")
  endif()
endforeach()

string(FIND "${html}" "@STYLE@" style_at)
string(FIND "${html}" "@SCRIPT@" script_at)
string(SUBSTRING "${html}" 0 ${style_at} before_style)
math(EXPR from "${style_at} + 7")
math(EXPR len "${script_at} - ${from}")
string(SUBSTRING "${html}" ${from} ${len} before_script)
math(EXPR from "${script_at} + 8")
string(SUBSTRING "${html}" ${from} -1 after_script)

set(out "#include \"server/console.h\"\n")
foreach(part before_style style before_script script after_script)
  file(WRITE ${TO}.part "${${part}}")
  file(READ ${TO}.part hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
  string(REGEX REPLACE "(0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],)" "\\1\n" hex "${hex}")
  string(APPEND out "static const unsigned char ${part}_bytes[] = {${hex}};\n"
         "const struct console_text console_${part} = {${part}_bytes, sizeof(${part}_bytes)}")
  string(APPEND out ";\n")
endforeach()
file(REMOVE ${TO}.part)
file(WRITE ${TO} "${out}")
