#include "api/guard.h"

namespace firebreak::api {

Error thrown_error() {
  return fail(Code::internal, "the server failed at this request, and its log says why",
              Repair{"try again, and tell the operator if it stays so"})
      .error();
}

}  // namespace firebreak::api
