#include "wire/http_head.h"
