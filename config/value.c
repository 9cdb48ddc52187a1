#include "config/value.h"
