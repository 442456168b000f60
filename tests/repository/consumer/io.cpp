#include <eigenformer/io/safetensors.hpp>
