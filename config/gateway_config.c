#include "config/gateway_config.h"
