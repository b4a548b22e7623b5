// One connection to the metadata service, without I/O: requests in, answers out, as version 2 of
// EC2's instance metadata service has them. The peer is any process of the tenant. Owned by its
// connection; one thread.
#pragma once

#include <string>
#include <string_view>

#include "guest/metadata.h"
#include "wire/http1.h"

namespace firebreak::guest {

class MetadataSession {
 public:
  explicit MetadataSession(Metadata& metadata);

  // Appends answers. False: no more is read; close when they are sent.
  bool receive(std::string_view input, Metadata::Clock::time_point now, std::string& out);

 private:
  struct Answer {
    int status = 200;
    std::string body;
    std::string type = "text/plain";
    std::string ttl;  // of a token
  };
  Answer answer(const wire::Http1Head& head, Metadata::Clock::time_point now);
  Answer issue_token(const wire::Http1Head& head, Metadata::Clock::time_point now);
  Answer read(std::string_view path) const;
  static void put(const Answer& answer, bool keep_alive, std::string& out);

  Metadata& metadata_;
  wire::Http1Parser parser_;
  std::size_t body_ = 0;  // bytes of the request's, which nobody wants
};

}  // namespace firebreak::guest
