/* SPDX-License-Identifier: MIT
 *
 * Everything: <tidings/tidings.h>. Since 0.1.
 */
#ifndef TIDINGS_TIDINGS_H
#define TIDINGS_TIDINGS_H

#include <tidings/call.h>
#include <tidings/client.h>
#include <tidings/prompt.h>
#include <tidings/provider.h>
#include <tidings/server.h>
#include <tidings/subscribers.h>
#include <tidings/tool.h>
#include <tidings/types.h>

#endif
