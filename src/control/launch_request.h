// What a caller asks for when it launches or changes a microVM. Values.
#pragma once

#include <optional>
#include <string>

#include "core/model.h"

namespace firebreak::control {

// A version that can run, and its image, as they were when somebody looked.
struct RunnableVersion {
  core::Image image;
  core::ImageVersion version;
};

struct LaunchRequest {
  std::string image;  // name or id
  std::optional<std::uint32_t> version;
  std::optional<core::IdlePolicy> idle;
  std::optional<core::Seconds> max_duration;
  std::string payload;
  core::Tags tags;
  std::string client_token;
  std::string request_hash;
  std::string config;
  std::optional<std::string> egress;  // name of a policy; unset: the image's, or the tenant's
  std::string role;                   // name; empty: its guest gets no credentials
  std::string name;                   // for people; may be empty
  core::Environment env;              // of its execs
  // By a caller that has looked it up already, in place of `image` and `version`.
  std::optional<RunnableVersion> chosen;
};

// What is unset stays; what is set to nothing is taken away.
struct MicrovmUpdate {
  std::optional<std::optional<core::IdlePolicy>> idle;
  std::optional<std::optional<core::Seconds>> max_duration;
  std::optional<std::string> egress;
  std::optional<std::string> name;
};

}  // namespace firebreak::control
