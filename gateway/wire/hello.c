#include "wire/hello.h"
