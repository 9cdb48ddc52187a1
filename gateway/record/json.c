#include "record/json.h"
