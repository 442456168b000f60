#include <eigenformer/io/io.hpp>
