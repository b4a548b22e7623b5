#include "api/guard.h"

namespace firebreak::api {

Error thrown_error() {
  return {Code::internal,
          "the server failed at this request, and its log says why; try again, "
          "and tell the operator if it stays so",
          {}};
}

}  // namespace firebreak::api
