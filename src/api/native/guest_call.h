// What routes into a guest share: entering it, answers of lines, how a process ended as JSON. One
// executor.
#pragma once

#include <string_view>

#include "api/call.h"
#include "session/guest.h"
#include "session/output.h"
#include "session/presence.h"

namespace firebreak::api {

// The microVM that the path names with {id}.
net::Task<Result<session::Guest>> enter(session::Guests& guests, Call& call);

// The client of an exchange.
class ExchangePresence : public session::Presence {
 public:
  explicit ExchangePresence(net::HttpExchange& exchange) : exchange_(exchange) {}
  net::Task<void> gone() override;

 private:
  net::HttpExchange& exchange_;
};

// Begins an answer of JSON lines; once is enough.
net::Task<Result<>> start_lines(Call& call);
// Ends it. An error after the first line can only be told as a line, of that type.
net::Task<Result<>> finish_lines(Call& call, Result<> result, std::string_view type);

// {exitCode?, signal?, timedOut, outOfMemory}
json::object ending_json(const session::Ending& ending);

}  // namespace firebreak::api
