# How everything is compiled, and the one function that declares a layer.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g") # no -DNDEBUG: assertions stay on in production
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")

option(SRT_WERROR "Warnings are errors" OFF)
set(SRT_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined or thread")
option(SRT_LIBFUZZER "Build the fuzz targets with libFuzzer (clang) instead of the corpus replayer" OFF)

add_compile_options(
    -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wwrite-strings -Wcast-qual -Wformat=2 -Wvla -Wswitch-enum
    -Wimplicit-fallthrough -Wundef)
if(SRT_WERROR)
    add_compile_options(-Werror)
endif()

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-fstack-protector-strong -fstack-clash-protection -fno-omit-frame-pointer)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    add_compile_options(-fcf-protection=full)
endif()
add_link_options(-Wl,-z,relro,-z,now -Wl,-z,noexecstack)
# A layer's libraries are linked only where something of them is used: loading libcrypto for nothing
# would cost srt-launch 2 ms.
add_link_options(-Wl,--as-needed)
if(SRT_SANITIZE)
    # What the sanitizers add makes -O2 cost twice the time to compile and hardly run faster.
    add_compile_options(-O1 -g1)
    add_compile_options(-fsanitize=${SRT_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${SRT_SANITIZE})
else()
    add_compile_definitions(_FORTIFY_SOURCE=2)
endif()
if(SRT_LIBFUZZER)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)
include(CheckPIESupported)
check_pie_supported()

# layer(NAME SOURCES ... LINKS ...): a static library whose headers are named by their path below
# the project or below gateway/.
function(layer name)
    cmake_parse_arguments(PARSE_ARGV 1 L "" "" "SOURCES;LINKS")
    add_library(srt_${name} STATIC ${L_SOURCES})
    target_include_directories(srt_${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
    if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/gateway/")
        target_include_directories(srt_${name} PUBLIC ${PROJECT_SOURCE_DIR}/gateway)
    endif()
    target_link_libraries(srt_${name} PUBLIC ${L_LINKS})
endfunction()
