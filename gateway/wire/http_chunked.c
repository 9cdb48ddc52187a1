#include "wire/http_chunked.h"
