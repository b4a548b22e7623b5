// Calls that lead into a guest: the lease that wakes it and keeps it awake, and calls that are the
// agent's own. One executor.
#pragma once

#include <string>

#include "api/call.h"

namespace firebreak::api {

// Of the microVM that the path names with {id}.
net::Task<Result<control::Lease>> lease(control::Supervisor& supervisor, Call& call);

// What the microVM was run with is in the environment of everything that is started in it later;
// what the call itself says wins.
void add_environment(machine::ExecSpec& spec, const control::Lease& held);

// The agent's answer is passed on. By value: a handler that is no coroutine returns this task.
net::Task<Result<>> pass_on(control::Supervisor& supervisor, Call& call, std::string method,
                            std::string path, json::object body = {}, int status = 200);

}  // namespace firebreak::api
