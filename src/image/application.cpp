#include "image/application.h"

namespace firebreak::image {
namespace {

constexpr const char* kAppExec = "app";
constexpr std::size_t kMaxTail = 2000;

}  // namespace

net::Task<std::string> last_output(machine::AgentClient& agent, Deadline deadline) {
  std::string text;
  auto stream = co_await agent.exec_output(kAppExec, 0, deadline);
  while (stream) {
    auto frame = co_await (*stream)->next(deadline);
    if (!frame || !*frame) break;
    if ((*frame)->type == wire::FrameType::out || (*frame)->type == wire::FrameType::err)
      text += (*frame)->payload;
    if (text.size() > 2 * kMaxTail) text.erase(0, text.size() - kMaxTail);
  }
  co_return text;
}

net::Task<void> stop_application(machine::AgentClient& agent, int signal, Deadline deadline) {
  if (!co_await agent.signal_exec(kAppExec, signal, deadline)) co_return;
  // Its output ends when it does.
  (void)co_await last_output(agent, deadline);
}

}  // namespace firebreak::image
